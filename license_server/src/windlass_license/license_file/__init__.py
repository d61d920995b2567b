"""The signed license file: its keys, its byte form, and how a license is issued from a listing of GPUs."""
