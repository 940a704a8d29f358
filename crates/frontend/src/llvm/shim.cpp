// The part of LLVM that its C interface does not reach: block splitting, debug information, constant
// users. Everything else is in Rust. No logic lives here.

#include "llvm/ADT/STLExtras.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/CodeGen/AtomicExpandUtils.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/AttributeMask.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/DebugProgramInstruction.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/ReplaceConstant.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

#include <cstdlib>
#include <cstring>

using namespace llvm;

extern "C" {

// Mirrored in lib.rs.
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

static void setFile(CpLocation *Out, const DIScope *Scope, const DISubprogram *SP) {
  StringRef File = Scope->getFilename();
  Out->file = File.data();
  Out->file_len = File.size();
  const DICompileUnit *Unit = SP ? SP->getUnit() : nullptr;
  StringRef Directory = Scope->getDirectory();
  // A crate of the registry is compiled in its own directory, which is not the user's.
  if (Unit && Unit->getDirectory() == Directory && !Directory.contains("/registry/src/"))
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

// A source variable that a value stands for: its name, the function it is of, and the node of its type.
typedef void (*CpVariable)(void *Context, LLVMValueRef Value, const char *Name, size_t Length,
                           const char *Function, size_t FunctionLength, LLVMMetadataRef Type, bool IsAddress);

void cp_variables(LLVMValueRef F, CpVariable Tell, void *Context) {
  for (Instruction &I : instructions(*cast<Function>(unwrap(F))))
    for (DbgVariableRecord &R : filterDbgVars(I.getDbgRecordRange())) {
      // Parts of variables and computed values have no name that a reader would know.
      if (R.hasArgList() || R.getExpression()->getNumElements() != 0 || R.isKillLocation())
        continue;
      Value *V = R.getVariableLocationOp(0);
      StringRef Name = R.getVariable()->getName();
      StringRef Function;
      if (auto *SP = R.getVariable()->getScope()->getSubprogram())
        Function = SP->getLinkageName();
      if (V)
        Tell(Context, wrap(V), Name.data(), Name.size(), Function.data(), Function.size(),
             wrap(R.getVariable()->getType()), R.isDbgDeclare());
    }
}

// The node of the type of a global variable, or null.
LLVMMetadataRef cp_global_type(LLVMValueRef G) {
  SmallVector<DIGlobalVariableExpression *, 1> All;
  cast<GlobalVariable>(unwrap(G))->getDebugInfo(All);
  return All.empty() ? nullptr : wrap(All[0]->getVariable()->getType());
}

// Mirrored in debug.rs.
struct CpType {
  // 0: nothing to say; 1: pointer; 2: structure, class or union; 3: array; 4: a plain value.
  unsigned kind;
  const char *name;
  size_t name_len;
  uint64_t bytes;
  // What is pointed to, or the element.
  LLVMMetadataRef base;
  uint64_t alignment;
};

void cp_type(LLVMMetadataRef MD, CpType *Out) {
  *Out = CpType();
  auto *Type = dyn_cast_or_null<DIType>(unwrap<Metadata>(MD));
  StringRef Alias;
  while (auto *Derived = dyn_cast_or_null<DIDerivedType>(Type)) {
    auto Tag = Derived->getTag();
    if (Tag == dwarf::DW_TAG_pointer_type || Tag == dwarf::DW_TAG_reference_type ||
        Tag == dwarf::DW_TAG_rvalue_reference_type) {
      Out->kind = 1;
      Out->bytes = 8;
      Out->base = wrap(Derived->getBaseType());
      return;
    }
    if (Tag == dwarf::DW_TAG_typedef && Alias.empty())
      Alias = Derived->getName();
    Out->alignment = std::max<uint64_t>(Out->alignment, Derived->getAlignInBytes());
    Type = Derived->getBaseType();
  }
  if (!Type)
    return;
  Out->bytes = Type->getSizeInBits() / 8;
  Out->alignment = std::max<uint64_t>(Out->alignment, Type->getAlignInBytes());
  // A structure is aligned as its members are.
  if (auto *Composite = dyn_cast<DICompositeType>(Type);
      Composite && Composite->getTag() != dwarf::DW_TAG_array_type)
    for (auto *Element : Composite->getElements())
      if (auto *Member = dyn_cast_or_null<DIDerivedType>(Element);
          Member && Member->getTag() == dwarf::DW_TAG_member && !Member->isStaticMember())
        Out->alignment = std::max<uint64_t>(Out->alignment, Member->getAlignInBytes());
  StringRef Name = Type->getName().empty() ? Alias : Type->getName();
  Out->name = Name.data();
  Out->name_len = Name.size();
  Out->kind = 4;
  if (auto *Composite = dyn_cast<DICompositeType>(Type)) {
    if (Composite->getTag() == dwarf::DW_TAG_array_type) {
      Out->kind = 3;
      Out->base = wrap(Composite->getBaseType());
    } else if (Composite->getTag() != dwarf::DW_TAG_enumeration_type) {
      Out->kind = 2;
    }
  }
}

typedef void (*CpMember)(void *Context, const char *Name, size_t Length, uint64_t Offset,
                         LLVMMetadataRef Type);

// Members of a structure, class or union behind typedefs and qualifiers.
void cp_members(LLVMMetadataRef MD, CpMember Tell, void *Context) {
  auto *Type = dyn_cast_or_null<DIType>(unwrap<Metadata>(MD));
  while (auto *Derived = dyn_cast_or_null<DIDerivedType>(Type))
    Type = Derived->getBaseType();
  auto *Composite = dyn_cast_or_null<DICompositeType>(Type);
  if (!Composite)
    return;
  for (DINode *Element : Composite->getElements()) {
    auto *Member = dyn_cast_or_null<DIDerivedType>(Element);
    if (!Member || Member->isStaticMember())
      continue;
    if (Member->getTag() != dwarf::DW_TAG_member && Member->getTag() != dwarf::DW_TAG_inheritance)
      continue;
    StringRef Name = Member->getName();
    Tell(Context, Name.data(), Name.size(), Member->getOffsetInBits() / 8, wrap(Member->getBaseType()));
  }
}

} // extern "C"
