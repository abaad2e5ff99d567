"""Fitted models as ONNX files, which run without torch and without natpn."""

from natpn.export.onnx_file import export_onnx

__all__ = ["export_onnx"]
