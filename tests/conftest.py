"""Settings that every test shares."""

from hypothesis import settings

settings.register_profile("fedforest", deadline=None)  # a first example may compile a kernel
settings.load_profile("fedforest")
