"""A fitted model over HTTP: predictions with their uncertainties, metrics, and a page to try it on."""

try:
    from natpn.serve.app import create_app
    from natpn.serve.identity import Identity
    from natpn.serve.server import run
except ImportError as error:
    raise ImportError(
        f"natpn.serve needs more packages ({error}); in a clone of natpn, run: pip install '.[serve]'"
    ) from error

__all__ = ["Identity", "create_app", "run"]
