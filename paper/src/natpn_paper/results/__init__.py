"""Lines of runs → the paper's tables and figures, in a terminal, as Markdown and as one HTML page; never trains."""
