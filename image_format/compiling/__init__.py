"""Whether a kernel runs compiled or as Python, and the compiler in the background."""
