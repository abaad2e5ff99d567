"""`python -m natpn` is the command `natpn`."""

from natpn.cli import main

if __name__ == "__main__":
    main()
