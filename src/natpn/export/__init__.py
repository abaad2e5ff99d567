"""Fitted models as ONNX files, which run without torch and without natpn."""

from natpn.export.writing import export_onnx

__all__ = ["export_onnx"]
