"""The experiments of the paper on Natural Posterior Networks: data sets, competitors, tables and figures."""
