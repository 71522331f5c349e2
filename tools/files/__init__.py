"""The parts that the file tools are made of. ``tools/file_tools.py`` registers the tools.

A tool each: ``reading``, ``writing``, ``patching``, ``searching`` (with ``matches``). ``places`` leads from a path to the
file that is opened; ``text`` is bytes as text and back, ``changing``, ``placing`` and ``unified`` change it; ``kept`` keeps
what is replaced, ``owners`` whose a file is.
"""
