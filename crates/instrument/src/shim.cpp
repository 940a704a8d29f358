// The part of LLVM that its C interface does not reach: pass registration, block splitting, debug
// locations, constant users. Everything else is in Rust. No logic lives here.

#include "llvm/ADT/STLExtras.h"
#include "llvm/CodeGen/AtomicExpandUtils.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/AttributeMask.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/IR/ReplaceConstant.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Plugins/PassPlugin.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

#include <cstdlib>
#include <cstring>

using namespace llvm;

// Implemented in Rust.
extern "C" void crashproof_prepare_module(LLVMModuleRef, bool unoptimised);
extern "C" void crashproof_instrument_module(LLVMModuleRef);

namespace {

struct PreparePass : PassInfoMixin<PreparePass> {
  bool Unoptimised;
  explicit PreparePass(bool Unoptimised) : Unoptimised(Unoptimised) {}
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &) {
    crashproof_prepare_module(wrap(&M), Unoptimised);
    return PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }
};

struct InstrumentPass : PassInfoMixin<InstrumentPass> {
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &) {
    // Both are idempotent, so a pipeline without a start (link-time optimisation) is covered too.
    crashproof_prepare_module(wrap(&M), false);
    crashproof_instrument_module(wrap(&M));
    return PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }
};

void registerCallbacks(PassBuilder &PB) {
  PB.registerPipelineStartEPCallback(
      [](ModulePassManager &MPM, OptimizationLevel Level) {
        MPM.addPass(PreparePass(Level == OptimizationLevel::O0));
      });
  PB.registerOptimizerLastEPCallback(
      [](ModulePassManager &MPM, OptimizationLevel, ThinOrFullLTOPhase Phase) {
        // Before a link-time phase the optimiser is not done yet.
        if (Phase != ThinOrFullLTOPhase::ThinLTOPreLink && Phase != ThinOrFullLTOPhase::FullLTOPreLink)
          MPM.addPass(InstrumentPass());
      });
  PB.registerFullLinkTimeOptimizationLastEPCallback(
      [](ModulePassManager &MPM, OptimizationLevel) { MPM.addPass(InstrumentPass()); });
  PB.registerPipelineParsingCallback(
      [](StringRef Name, ModulePassManager &MPM, ArrayRef<PassBuilder::PipelineElement>) {
        if (Name == "crashproof-prepare")
          MPM.addPass(PreparePass(true));
        else if (Name == "crashproof")
          MPM.addPass(InstrumentPass());
        else
          return false;
        return true;
      });
}

} // namespace

extern "C" {

// Mirrored in raw.rs.
struct CpLocation {
  unsigned line, column;
  const char *file;
  size_t file_len;
  // Only if the file is relative to another directory than the compiler ran in: clang splits absolute
  // names where they leave that directory.
  const char *directory;
  size_t directory_len;
  const char *function;
  size_t function_len;
  LLVMMetadataRef inlined_at;
};

void cp_register_callbacks(void *PB) { registerCallbacks(*static_cast<PassBuilder *>(PB)); }

static void setFile(CpLocation *Out, const DIScope *Scope, const DISubprogram *SP) {
  StringRef File = Scope->getFilename();
  Out->file = File.data();
  Out->file_len = File.size();
  const DICompileUnit *Unit = SP ? SP->getUnit() : nullptr;
  StringRef Directory = Scope->getDirectory();
  if (Unit && Unit->getDirectory() == Directory)
    Directory = StringRef();
  Out->directory = Directory.data();
  Out->directory_len = Directory.size();
}

bool cp_location(LLVMMetadataRef MD, CpLocation *Out) {
  auto *Loc = dyn_cast_or_null<DILocation>(unwrap<Metadata>(MD));
  if (!Loc)
    return false;
  Out->line = Loc->getLine();
  Out->column = Loc->getColumn();
  setFile(Out, Loc->getScope(), Loc->getScope()->getSubprogram());
  StringRef Name;
  if (auto *SP = Loc->getScope()->getSubprogram()) {
    Name = SP->getLinkageName();
    if (Name.empty())
      Name = SP->getName();
  }
  Out->function = Name.data();
  Out->function_len = Name.size();
  Out->inlined_at = wrap(Loc->getInlinedAt());
  return true;
}

// The location of the function itself, for instructions that have none.
bool cp_function_location(LLVMValueRef V, CpLocation *Out) {
  auto *SP = cast<Function>(unwrap(V))->getSubprogram();
  if (!SP)
    return false;
  *Out = CpLocation();
  Out->line = SP->getLine();
  setFile(Out, SP, SP);
  StringRef Name = SP->getLinkageName().empty() ? SP->getName() : SP->getLinkageName();
  Out->function = Name.data();
  Out->function_len = Name.size();
  return true;
}

LLVMMetadataRef cp_debug_loc(LLVMValueRef V) {
  return wrap(static_cast<Metadata *>(cast<Instruction>(unwrap(V))->getDebugLoc().get()));
}

// To be freed by the caller.
char *cp_demangle(const char *Name, size_t Length) {
  return strdup(demangle(std::string_view(Name, Length)).c_str());
}

// Splits before V on a condition that is rarely true. Returns the terminators of both arms.
void cp_split(LLVMValueRef V, LLVMValueRef Cond, LLVMValueRef *Then, LLVMValueRef *Else) {
  auto *I = cast<Instruction>(unwrap(V));
  Instruction *ThenTerm = nullptr, *ElseTerm = nullptr;
  MDNode *Weights = MDBuilder(I->getContext()).createUnlikelyBranchWeights();
  SplitBlockAndInsertIfThenElse(unwrap(Cond), I->getIterator(), &ThenTerm, &ElseTerm, Weights);
  *Then = wrap(ThenTerm);
  *Else = wrap(ElseTerm);
}

// Like cp_split, with one arm only.
LLVMValueRef cp_split_then(LLVMValueRef V, LLVMValueRef Cond) {
  auto *I = cast<Instruction>(unwrap(V));
  MDNode *Weights = MDBuilder(I->getContext()).createUnlikelyBranchWeights();
  return wrap(SplitBlockAndInsertIfThen(unwrap(Cond), I->getIterator(), false, Weights));
}

void cp_move_before(LLVMValueRef V, LLVMValueRef Place) {
  auto *I = cast<Instruction>(unwrap(V));
  I->moveBefore(cast<Instruction>(unwrap(Place))->getIterator());
}

// The first place where the value of V may be used, or null.
LLVMValueRef cp_after_definition(LLVMValueRef V) {
  auto Place = cast<Instruction>(unwrap(V))->getInsertionPointAfterDef();
  return Place ? wrap(&**Place) : nullptr;
}

// The first place of a function behind its allocas.
LLVMValueRef cp_after_allocas(LLVMValueRef F) {
  return wrap(&*cast<Function>(unwrap(F))->getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
}

// Where the pointer came from, with inbounds constant offsets taken off.
LLVMValueRef cp_strip_constant_offsets(LLVMValueRef V) {
  return wrap(unwrap(V)->stripInBoundsConstantOffsets());
}

// Splits a constant pointer into a global and an offset.
LLVMValueRef cp_constant_base(LLVMValueRef V, LLVMModuleRef M, int64_t *Offset) {
  const DataLayout &DL = unwrap(M)->getDataLayout();
  auto *C = dyn_cast<Constant>(unwrap(V));
  if (!C)
    return nullptr;
  if (auto *E = dyn_cast<ConstantExpr>(C); E && E->getOpcode() == Instruction::PtrToInt)
    C = E->getOperand(0);
  if (!C->getType()->isPointerTy())
    return nullptr;
  APInt Sum(64, 0);
  Value *Base = C->stripAndAccumulateConstantOffsets(DL, Sum, /*AllowNonInbounds=*/true);
  *Offset = Sum.getSExtValue();
  return wrap(Base);
}

void cp_expand_rmw(LLVMValueRef V) {
  auto *RMW = cast<AtomicRMWInst>(unwrap(V));
  expandAtomicRMWToCmpXchg(
      RMW, [](IRBuilderBase &B, Value *Addr, Value *Loaded, Value *New, Align A, AtomicOrdering Order,
              SyncScope::ID Scope, Value *&Success, Value *&NewLoaded, Instruction *) {
        Type *T = New->getType();
        bool Cast = !T->isIntegerTy() && !T->isPointerTy();
        if (Cast) {
          Type *Int = B.getIntNTy(T->getPrimitiveSizeInBits());
          New = B.CreateBitCast(New, Int);
          Loaded = B.CreateBitCast(Loaded, Int);
        }
        auto *Pair = B.CreateAtomicCmpXchg(
            Addr, Loaded, New, A, Order, AtomicCmpXchgInst::getStrongestFailureOrdering(Order), Scope);
        Success = B.CreateExtractValue(Pair, 1);
        NewLoaded = B.CreateExtractValue(Pair, 0);
        if (Cast)
          NewLoaded = B.CreateBitCast(NewLoaded, T);
      });
}

// What was inferred about memory no longer holds once the runtime is called.
void cp_forget_memory_attributes(LLVMModuleRef M) {
  AttributeMask OnFunction, OnParameter;
  for (auto Kind : {Attribute::Memory, Attribute::NoSync, Attribute::NoFree, Attribute::NoRecurse,
                    Attribute::WillReturn, Attribute::Speculatable, Attribute::NoCallback})
    OnFunction.addAttribute(Kind);
  for (auto Kind : {Attribute::ReadNone, Attribute::ReadOnly, Attribute::WriteOnly, Attribute::Captures,
                    Attribute::Initializes, Attribute::NoFree})
    OnParameter.addAttribute(Kind);
  for (Function &F : *unwrap(M)) {
    if (F.isIntrinsic())
      continue;
    if (!F.isDeclaration()) {
      F.removeFnAttrs(OnFunction);
      for (Argument &A : F.args())
        F.removeParamAttrs(A.getArgNo(), OnParameter);
    }
    for (Instruction &I : instructions(F)) {
      auto *Call = dyn_cast<CallBase>(&I);
      if (!Call || Call->isInlineAsm() || isa<IntrinsicInst>(Call))
        continue;
      if (auto *Callee = Call->getCalledFunction(); Callee && Callee->isDeclaration())
        continue;
      Call->removeFnAttrs(OnFunction);
      for (unsigned A = 0; A < Call->arg_size(); ++A)
        Call->removeParamAttrs(A, OnParameter);
    }
  }
}

void cp_constant_users_to_instructions(LLVMValueRef V) {
  convertUsersOfConstantsToInstructions({cast<Constant>(unwrap(V))});
}

void cp_append_constructor(LLVMModuleRef M, LLVMValueRef F, int Priority) {
  appendToGlobalCtors(*unwrap(M), cast<Function>(unwrap(F)), Priority);
}

// 0: a call; 1: a call of inline assembly; 2: an intrinsic.
unsigned cp_call_class(LLVMValueRef V) {
  auto *Call = cast<CallBase>(unwrap(V));
  if (Call->isInlineAsm())
    return 1;
  return isa<IntrinsicInst>(Call) ? 2 : 0;
}

bool cp_touches_memory(LLVMValueRef V) {
  auto *Call = cast<CallBase>(unwrap(V));
  return Call->mayReadOrWriteMemory() && !Call->onlyAccessesInaccessibleMemory();
}

// A call that only computes, and always returns.
bool cp_free_of_effects(LLVMValueRef V) {
  auto *Call = cast<CallBase>(unwrap(V));
  return Call->doesNotAccessMemory() && Call->doesNotThrow() && Call->willReturn() &&
         !Call->hasFnAttr(Attribute::Convergent);
}

} // extern "C"
