"""The stock claim controller: claims from templates, entries of bound pods, deallocation after the last entry."""
