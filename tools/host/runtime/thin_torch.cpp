// The library side of the thin torch headers, in one translation unit: parsing the standard
// library is most of its compile time.
#include "thin/bind.h"

#include "thin/value.inc"
#include "thin/text.inc"
#include "thin/tensor.inc"
#include "thin/table.inc"
#include "thin/ops.inc"
