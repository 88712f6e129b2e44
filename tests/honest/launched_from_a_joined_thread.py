# task: row_max
#
# A worker thread launches, and is joined before forward returns.

import concurrent.futures


class ModelNew(nn.Module):
    def forward(self, x):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(kit.rows, x.contiguous(), 0).result()
