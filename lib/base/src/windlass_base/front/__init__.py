"""What a server allows to those who connect, before its application sees a request; needs the extra `front`."""
