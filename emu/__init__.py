"""The machine: cores over Unicorn, the coherent bus, caches, devices and the scheduler."""
