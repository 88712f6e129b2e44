// What the CUDA headers need beside torch's own macros, at level full.
#pragma once
#define MUSAHOST_HD
