"""The release of this package, for `fedforest --version`, peers and builds."""

__version__ = "0.1.0"
