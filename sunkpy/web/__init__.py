"""The page: one read of both sides for all viewers, over HTTP and server-sent events. It changes nothing."""
