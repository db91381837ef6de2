"""Third parties' compilers as backends: OpenVINO, TVM, ONNX Runtime, TensorRT, XLA and others.

Most are driven the same way (`host`): autograd is ours, so a partner sees functional ATen graphs of fixed sizes;
what it cannot take runs as torch's own kernels, which is reported and never silent. No partner is imported before a
graph is compiled with it.
"""
