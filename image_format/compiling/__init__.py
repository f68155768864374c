"""Choice between the compiled and the Python form of kernels, and the background compiler."""
