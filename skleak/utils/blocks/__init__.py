"""Where records may lie: in an array of this process, or in Dask arrays."""
