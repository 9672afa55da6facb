"""What opens above the main screen: dialogs, pickers, documents, comparisons."""
