"""`python -m natpn.cli` is the command `natpn`."""

from natpn.cli.commands import main

if __name__ == "__main__":
    main()
