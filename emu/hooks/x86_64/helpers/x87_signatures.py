"""Helpers of the x87 that ours take the place of, and their types: known before ours are loaded."""

from __future__ import annotations

from corebraid.base.compiled import types

_ADDRESS = types.uint64
_OF_STATE = (
    "f2xm1 fsin fcos fyl2x fyl2xp1 fpatan fprem fprem1 fscale fptan fsincos fxtract fxam_ST0 fld1_ST0 "
    "fldz_ST0 fldpi_ST0 fldl2e_ST0 fldl2t_ST0 fldlg2_ST0 fldln2_ST0 fpush fldz_FT0 fadd_ST0_FT0 "
    "fmul_ST0_FT0 fsub_ST0_FT0 fsubr_ST0_FT0 fdiv_ST0_FT0 fdivr_ST0_FT0 fcom_ST0_FT0 fucom_ST0_FT0 "
    "fcomi_ST0_FT0 fucomi_ST0_FT0 fchs_ST0 fabs_ST0 fsqrt frndint fpop fdecstp fincstp fwait fclex fninit "
)
_OF_REGISTER = (
    "fmov_ST0_STN fmov_FT0_STN fmov_STN_ST0 fxchg_ST0_STN fildl_ST0 fildl_FT0 fadd_STN_ST0 "
    "fmul_STN_ST0 fsub_STN_ST0 fsubr_STN_ST0 fdiv_STN_ST0 fdivr_STN_ST0 ffree_STN "
)
_BY_SIGNATURE = {
    types.void(_ADDRESS): _OF_STATE,
    types.void(_ADDRESS, types.int32): _OF_REGISTER,
    types.void(_ADDRESS, types.uint32): "flds_ST0 fldcw flds_FT0",
    types.void(_ADDRESS, types.int64): "fildll_ST0",
    types.void(_ADDRESS, types.uint64): "fldl_ST0 fbld_ST0 fldt_ST0 fbst_ST0 fstt_ST0 fldl_FT0",
    types.void(_ADDRESS, _ADDRESS, types.int32): "fstenv fldenv fsave frstor",
    types.uint32(_ADDRESS): "fsts_ST0 fnstsw fnstcw",
    types.uint64(_ADDRESS): "fstl_ST0",
    types.int32(_ADDRESS): "fist_ST0 fistl_ST0 fistt_ST0 fisttl_ST0",
    types.int64(_ADDRESS): "fistll_ST0 fisttll_ST0",
}
#: Numba signatures by the emulator's names.
X87_SIGNATURES = {
    f"helper_{name}": signature for signature, names in _BY_SIGNATURE.items() for name in names.split()
}
