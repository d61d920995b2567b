export { Component, Fragment, createContext, h, render } from "preact";
export type { ComponentChildren, VNode } from "preact";
export { useCallback, useContext, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import type { VNode } from "preact";
export declare const html: (strings: TemplateStringsArray, ...values: unknown[]) => VNode;
