"""Other frameworks, each in a process of its own; nothing here is imported by poolgrad.

The files run as scripts, with the interpreter in whose environment the framework is, so they import only NumPy, the
framework and each other.
"""
