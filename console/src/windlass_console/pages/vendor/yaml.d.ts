export { LineCounter, isCollection, parseDocument } from "yaml";
export type { Document } from "yaml";
