"""Tests of what an audit takes over from an earlier one."""
