"""Queries over the tables of images and edits: functions from DataFrame to DataFrame that run no job."""
