"""The formats of an export: each turns lines, part by part, into bytes, part by part."""
