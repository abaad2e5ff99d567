"""`natpn`, as if cells were so large that files of any size are read in pieces."""

from natpn import data
from natpn.cli import main

if __name__ == "__main__":
    data.NUMBER_BYTES = data.TEXT_BYTES = 10**6
    main()
