"""How a wheel is made that brings its kernels: `wheel.py`; what is run for that: `training.py`."""
