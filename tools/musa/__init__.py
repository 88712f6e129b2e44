"""The musa target: mcc and torch_musa."""
