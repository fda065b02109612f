"""Answers the HTTP calls of Prologs and Epilogs, which hold a node until the scheduler's pods have come or gone."""
