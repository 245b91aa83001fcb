import { PriorityClass } from "@/generated/contracts";

export const CLASS_NAME: Readonly<Record<PriorityClass, string>> = {
  [PriorityClass.HIGH]: "High",
  [PriorityClass.STANDARD]: "Standard",
  [PriorityClass.LOW]: "Low",
};

const CLASS_MEANS: Readonly<Record<PriorityClass, string>> = {
  [PriorityClass.HIGH]: "High: goes before all others",
  [PriorityClass.STANDARD]: "Standard",
  [PriorityClass.LOW]: "Low: waits for all others",
};

export const CLASS_OPTIONS = Object.values(PriorityClass).map((value) => ({ value, label: CLASS_MEANS[value] }));
