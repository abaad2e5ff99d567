"""What the paper of Natural Posterior Networks compares: its data sets, its competitors, its tables and figures."""
