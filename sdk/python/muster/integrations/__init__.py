"""Callbacks for training libraries. Import the module of the library that you use."""
