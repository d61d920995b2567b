"""The torch side: loading, DeepSpeed, the batch's cache, drawing tokens. Imported only to serve a model."""
