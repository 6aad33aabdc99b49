"""The contract's messages and stubs, written by `generate`; only this file and `pool.py` are by hand."""
