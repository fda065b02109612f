"""The page: one read of both sides for all who look, over HTTP and server-sent events. It changes nothing."""
