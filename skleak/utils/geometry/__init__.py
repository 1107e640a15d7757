"""Decision cells of Gaussians: half-spaces, and polygons in a plane."""
