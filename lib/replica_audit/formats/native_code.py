import ctypes
DONE, MORE = 0, 1
RUN_BYTES=80; WINDOW_BYTES=24
class ScanState(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int64) for n in "fd size stop verify_crc buffer capacity begin end position next_offset last_size first_bad_crc runs run_room run_count runs_left windows window_room window_count".split()]
SLOTS={n:getattr(ScanState,n).offset for n,_ in ScanState._fields_}
