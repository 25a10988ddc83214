"""Every prompt the language model is asked with, one Markdown file each."""
