"""The Gaussian channel: reduction, decision cells, integrals."""
