"""The composition root: data folder, first start, ports, and guard and abby in one event loop; the doctor."""
