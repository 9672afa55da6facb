"""The arithmetic of the methods that look up while they write (ETC, DRAGIN, FLARE, IRCoT): numbers in, numbers out."""
