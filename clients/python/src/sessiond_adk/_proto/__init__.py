"""The messages and stubs of the contract. `generate` writes them; only this file and `pool.py` are written by hand."""
