"""Decision cells of Gaussians: half-lines, half-spaces, and polygons in a plane."""
