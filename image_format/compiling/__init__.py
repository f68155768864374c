"""Choice between the compiled and the Python forms of kernels, and the background compiler."""
