// Whether native threads of the candidate's own are there while kernels run.
#pragma once

namespace musahost __attribute__((visibility("hidden"))) {

// To be called before a launch: more than musahost_expect_threads said are noted.
void note_threads_beside();

}  // namespace musahost
